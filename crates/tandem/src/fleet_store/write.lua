-- Writes records that are newer than those in the buckets, and appends them to the stream of changes as one entry.
-- KEYS: state, stream, buckets. ARGV: epoch, maximum length of the stream, origin, then for each record: index of its bucket, field, value.
-- Returns the number of records that were written. Version: bytes 2 to 17 of a value, compared as numbers because strings compare by locale.
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return redis.error_reply('EPOCH the store has lost its data')
end
local function is_as_new(known, value)
  if #known < 22 or string.byte(known) ~= 1 then return false end
  for i = 2, 17 do
    local a, b = string.byte(known, i), string.byte(value, i)
    if a ~= b then return a > b end
  end
  return true
end
local entry = {}
for i = 4, #ARGV, 3 do
  local bucket, field, value = KEYS[2 + tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2]
  local known = redis.call('HGET', bucket, field)
  if not known or not is_as_new(known, value) then
    redis.call('HSET', bucket, field, value)
    entry[#entry + 1] = field
    entry[#entry + 1] = value
  end
end
if #entry > 0 then
  local number = redis.call('HINCRBY', KEYS[1], 'number', 1)
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 'number', number, 'origin', ARGV[3], unpack(entry))
end
return #entry / 2
