-- Says that this node is alive. ARGV: instance, Unix time before which its dialogs are forgotten, how many lost dialogs to return. Returns 1
-- if the store did not know this node, and the beginnings of the records of dialogs that it has lost.
local time = redis.call('TIME')
local added = redis.call('ZADD', base .. 'nodes', time[1] * 1000 + math.floor(time[2] / 1000), me)
redis.call('ZREMRANGEBYSCORE', base .. 'of:' .. me, '-inf', ARGV[2])
local lost = redis.call('LRANGE', base .. 'lost:' .. me, 0, ARGV[3] - 1)
if #lost > 0 then redis.call('LTRIM', base .. 'lost:' .. me, #lost, -1) end
return { added, lost }
