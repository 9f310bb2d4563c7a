/* Each run of TCP users, a line. Goodput of users, Mb/s: the least, the mean, the most and the standard deviation; sent again, time-outs and
   entries into fast recovery, % of packets sent; what the queue dropped, % of what was sent again; the way of a packet by the smoothed
   round trip, and the mean time until a byte is there in order (Little's law between the first sample and the last), ms; the link: air in
   use, decoded after 0 to 3 retransmissions and given up, %; dropped for want of room and for age, % of what came */
with
last as (
  select run, "user", max(time_s) as time_s, max(airtime_s) as airtime_s, max(decoded_after_0_packets) as d0, max(decoded_after_1_packets) as d1,
    max(decoded_after_2_packets) as d2, max(decoded_after_3_packets) as d3, max(dropped_retry_limit_packets) as lost
  from radio_users where link = 'mobile.down' group by all
),
radio as (
  select run, max(time_s) as seconds, sum(airtime_s) / max(time_s) as air, sum(d0 + d1 + d2 + d3) as decoded, sum(d0) as d0, sum(d1) as d1,
    sum(d2) as d2, sum(d3) as d3, sum(lost) as lost
  from last group by all
),
receivers as (
  select run, min(received_in_order_bytes) as least, avg(received_in_order_bytes) as mean, max(received_in_order_bytes) as most,
    stddev(received_in_order_bytes) as sd
  from flow_summary where side = 'client' group by all
),
senders as (
  select run, sum(sent_packets - ack_packets) as sent, sum(retransmitted_bytes) / 960 as resent, sum(rtos) as timeouts,
    sum(congestion_events) as events
  from flow_summary where side = 'server' group by all
),
queue as (
  select run, arrived_packets as came, dropped_overflow_packets as full_up, dropped_aqm_packets as late from link_summary
  where link = 'mobile.down'
),
sampled as (
  select run, max_by(smoothed_rtt_s, time_s) / max_by(rtt_samples, time_s) as rtt_s from tcp_counters where side = 'server' group by all
),
came as (
  select run, time_s, sum(received_in_order_bytes) as came from flows where side = 'client' group by all
),
steps as (
  select tcp_counters.run, tcp_counters.time_s, max(came.came) as came, 960 * sum(data_segments - retransmitted_segments) - max(came.came) as waiting
  from tcp_counters join came on tcp_counters.run = came.run and tcp_counters.time_s = came.time_s where side = 'server' group by all
),
between_samples as (
  select run, came, (waiting + lag(waiting) over w) / 2 * (time_s - lag(time_s) over w) as area from steps
  window w as (partition by run order by time_s)
),
delivery as (
  select run, sum(area) / nullif(max(came) - min(came), 0) as delivery_s from between_samples group by all
)
select point, policy, cast("flow.terminal.count" as int) as users, variant, reordering, seed,
  round(least * 8 / seconds / 1e6, 6) as least, round(mean * 8 / seconds / 1e6, 6) as mean, round(most * 8 / seconds / 1e6, 6) as most,
  round(sd * 8 / seconds / 1e6, 6) as sd,
  round(100 * resent / sent, 4) as again, round(100 * timeouts / sent, 4) as rto, round(100 * events / sent, 4) as dupack,
  round(100 * (full_up + late) / nullif(resent, 0), 4) as refused,
  round(1e3 * rtt_s - 85, 3) as way_ms, round(1e3 * delivery_s, 3) as delivery_ms,
  round(air, 6) as air, round(100 * d0 / decoded, 4) as decoded_0, round(100 * d1 / decoded, 4) as decoded_1,
  round(100 * d2 / decoded, 4) as decoded_2, round(100 * d3 / decoded, 4) as decoded_3, round(100 * lost / (decoded + lost), 4) as given_up,
  round(100 * full_up / came, 4) as no_room, round(100 * late / came, 4) as timed_out
from (select distinct run, point, policy, "flow.terminal.count", variant, reordering, seed from flow_summary)
join radio using (run) join receivers using (run) join senders using (run) join queue using (run) left join sampled using (run)
left join delivery using (run)
order by point, policy, users, variant, reordering, seed
