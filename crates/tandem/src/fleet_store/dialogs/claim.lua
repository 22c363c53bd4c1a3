-- Claims dialogs. ARGV: instance, then two keys for each dialog, of which one may exist. Returns a record or false for each.
local found = {}
for i = 2, #ARGV, 2 do
  found[#found + 1] = claim(ARGV[i]) or claim(ARGV[i + 1])
end
return found
