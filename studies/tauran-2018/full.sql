/* Goodput of the users of each run of 600 s, Mb/s: the least, the mean, the most and the standard deviation */
select point, policy, cast("flow.terminal.count" as int) as users, variant, reordering, seed,
  round(min(received_in_order_bytes) * 8 / 600e6, 6) as least, round(avg(received_in_order_bytes) * 8 / 600e6, 6) as mean,
  round(max(received_in_order_bytes) * 8 / 600e6, 6) as most, round(stddev(received_in_order_bytes) * 8 / 600e6, 6) as sd
from summary where side = 'client'
group by all order by point, policy, users, variant, reordering, seed
