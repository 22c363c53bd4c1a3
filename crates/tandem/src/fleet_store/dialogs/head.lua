-- The beginning of a record: byte 1: form; 2 to 5: claim; 6: length of the owner; owner; 16 bytes: id of the dialog; 4 bytes: expiry.
local base, me = KEYS[1], ARGV[1]
local KEPT, LONGEST = 86400, 200000
local function head(value)
  if #value < 26 or string.byte(value) ~= 1 then return nil end
  local length = string.byte(value, 6)
  return struct.unpack('>I4', value, 2), string.sub(value, 7, 6 + length), string.sub(value, 1, 26 + length)
end
-- Tells the former owner of a dialog who has it now.
local function tell(owner, key, news)
  redis.call('ZREM', base .. 'of:' .. owner, key)
  local lost = base .. 'lost:' .. owner
  redis.call('RPUSH', lost, news)
  redis.call('LTRIM', lost, -LONGEST, -1)
  redis.call('EXPIRE', lost, KEPT)
end
-- Makes this node the owner of a dialog. Returns its record, or false.
local function claim(key)
  local known = redis.call('GET', base .. 'c:' .. key)
  local number, owner = nil, nil
  if known then number, owner = head(known) end
  if not number then return false end
  if owner == me then return known end
  local claimed = '\1' .. struct.pack('>I4', number + 1) .. string.char(#me) .. me .. string.sub(known, 7 + #owner)
  local expires = redis.call('ZSCORE', base .. 'of:' .. owner, key) or 0
  redis.call('SET', base .. 'c:' .. key, claimed, 'KEEPTTL')
  redis.call('ZADD', base .. 'of:' .. me, expires, key)
  local _, _, news = head(claimed)
  tell(owner, key, news)
  return claimed
end
