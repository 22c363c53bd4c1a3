-- Claims dialogs of a node that is gone. ARGV: instance, milliseconds since its last beat, how many dialogs. Returns their records.
local time, nodes, found = redis.call('TIME'), base .. 'nodes', {}
local before = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[2]
local gone = redis.call('ZRANGEBYSCORE', nodes, '-inf', '(' .. before, 'LIMIT', 0, 1)[1]
if not gone or gone == me then return found end
local dialogs = base .. 'of:' .. gone
local keys = redis.call('ZRANGE', dialogs, 0, ARGV[3] - 1)
for _, key in ipairs(keys) do
  local known = redis.call('GET', base .. 'c:' .. key)
  local _, owner = head(known or '')
  if owner == gone then found[#found + 1] = claim(key) end
  redis.call('ZREM', dialogs, key)
end
if #keys == 0 then redis.call('ZREM', nodes, gone) end
return found
