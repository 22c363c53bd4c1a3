-- Deletes records that have not changed since they were read. KEYS: bucket. ARGV: for each record: field, version (bytes 2 to 17).
local deleted = 0
for i = 1, #ARGV, 2 do
  local known = redis.call('HGET', KEYS[1], ARGV[i])
  if known and string.sub(known, 2, 17) == ARGV[i + 1] then
    deleted = deleted + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return deleted
