/* Calls of each run of 600 s: the share lost of the packets whose fate is known, of the best call, of all, and of the worst, %; the mean
   delay, of the call with the shortest, of all packets, and of the call with the longest, ms; RFC 3550's jitter, mean over packets, ms */
select point, policy, users, seed,
  round(100 * min(lost / decided), 4) as least_lost, round(100 * sum(lost) / sum(decided), 4) as lost,
  round(100 * max(lost / decided), 4) as most_lost, round(1e3 * min(delay_s / received), 3) as least_delay_ms,
  round(1e3 * sum(delay_s) / sum(received), 3) as delay_ms, round(1e3 * max(delay_s / received), 3) as most_delay_ms,
  round(1e3 * sum(jitter_s) / sum(received), 3) as jitter_ms
from (
  select run, point, policy, cast("flow.terminal.count" as int) as users, seed, flow, sum(sent_packets - undecided_packets) as decided,
    decided - sum(received_packets - duplicate_packets) as lost, nullif(sum(received_packets), 0) as received,
    sum(delay_sum_s) as delay_s, sum(jitter_sum_s) as jitter_s
  from calls where direction = 'down' group by all
)
group by all order by point, policy, users
