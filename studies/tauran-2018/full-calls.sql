/* Each run of calls, a line. The share lost of the packets whose fate is known, of the best call, of all, and of the worst, %; the mean delay,
   of the call with the shortest, of all packets, and of the call with the longest, ms; RFC 3550's jitter, mean over packets, ms; useful and
   coded load without padding, Mb/s; the link: air in use, decoded after 0 to 3 retransmissions and given up, %; dropped for want of room
   and for age, % of what came. The MOS is not here: its play-out is no sum */
with
last as (
  select run, "user", max(time_s) as time_s, max(airtime_s) as airtime_s, max(coded_bits) as bits, max(decoded_after_0_packets) as d0,
    max(decoded_after_1_packets) as d1, max(decoded_after_2_packets) as d2, max(decoded_after_3_packets) as d3,
    max(dropped_retry_limit_packets) as lost
  from radio_users where link = 'mobile.down' group by all
),
radio as (
  select run, max(time_s) as seconds, sum(airtime_s) / max(time_s) as air, sum(bits) as bits, sum(d0 + d1 + d2 + d3) as decoded,
    sum(d0) as d0, sum(d1) as d1, sum(d2) as d2, sum(d3) as d3, sum(lost) as given_up
  from last group by all
),
queue as (
  select run, arrived_packets as came, dropped_overflow_packets as full_up, dropped_aqm_packets as late from link_summary
  where link = 'mobile.down'
),
each as (
  select run, point, policy, cast("flow.terminal.count" as int) as users, seed, flow, sum(sent_packets - pending_packets) as decided,
    decided - sum(received_packets - duplicate_packets) as lost, nullif(sum(received_packets), 0) as received,
    sum(delay_sum_s) as delay_s, sum(jitter_sum_s) as jitter_s
  from calls where direction = 'down' group by all
)
select point, policy, users, seed,
  round(100 * min(each.lost / decided), 4) as lost_min, round(100 * sum(each.lost) / sum(decided), 4) as lost,
  round(100 * max(each.lost / decided), 4) as lost_max, round(1e3 * min(delay_s / received), 3) as delay_min_ms,
  round(1e3 * sum(delay_s) / sum(received), 3) as delay_ms, round(1e3 * max(delay_s / received), 3) as delay_max_ms,
  round(1e3 * sum(jitter_s) / sum(received), 3) as jitter_ms,
  round(sum(received) * 210 * 8 / max(seconds) / 1e6, 6) as useful_mbps,
  round(max(bits) / max(seconds) / 1e6 * 210 / 1115, 6) as load_mbps, round(max(air), 6) as air,
  round(100 * max(d0) / max(decoded), 4) as decoded_0, round(100 * max(d1) / max(decoded), 4) as decoded_1,
  round(100 * max(d2) / max(decoded), 4) as decoded_2, round(100 * max(d3) / max(decoded), 4) as decoded_3,
  round(100 * max(given_up) / (max(decoded) + max(given_up)), 4) as given_up,
  round(100 * max(full_up) / max(came), 4) as no_room, round(100 * max(late) / max(came), 4) as timed_out
from each join radio using (run) join queue using (run)
group by all order by point, policy, users, seed
