-- Writes or removes dialogs of this node, unless another node has claimed them. ARGV: instance, then for each dialog: key, lifetime in
-- milliseconds (0: it has ended), expiry, whether its end counts even so, record. Returns the beginnings of the records of other nodes.
local own, refused = base .. 'of:' .. me, {}
for i = 2, #ARGV, 5 do
  local key, life, expires, counts, value = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local place = base .. 'c:' .. key
  local known = redis.call('GET', place)
  local number, owner, news = nil, nil, nil
  if known then number, owner, news = head(known) end
  local is_foreign = number and owner ~= me
  if life == '0' then
    if is_foreign then refused[#refused + 1] = news end
    if is_foreign and counts == '1' then
      tell(owner, key, '\1\255\255\255\255' .. string.sub(news, 6))
    end
    if not is_foreign or counts == '1' then redis.call('DEL', place) end
    redis.call('ZREM', own, key)
  elseif is_foreign and number >= head(value) then
    refused[#refused + 1] = news
    redis.call('ZREM', own, key)
  else
    if is_foreign then
      local _, _, ours = head(value)
      tell(owner, key, ours)
    elseif number then
      value = '\1' .. struct.pack('>I4', math.max(number, (head(value)))) .. string.sub(value, 6)
    end
    redis.call('SET', place, value, 'PX', life)
    redis.call('ZADD', own, expires, key)
  end
end
return refused
