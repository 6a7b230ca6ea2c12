"""The compare-and-set of Redis rows, one batch per call. Redis runs scripts atomically, so nothing happens between the
comparison and the write.

Both scripts promise: a row is written only if its version is greater than the stored one, or equal and its release
greater (or the stored ones are exactly the seen ones); the first write of a row needs memory, so that a full Redis
refuses before any part of the row is lost; the answer is the number of rows applied, then index and error of every key
that could not be compared.
"""

# KEYS: the rows' keys. ARGV: ttl and marker ttl in ms (0: none), 1 if the rows have releases, the number of columns,
# their names; then for each row its version, the seen version ("" for none), its mask, its release and the seen one if
# they have them, and one value per column. Mask: "" if every column has a value, "-" for a deleted row, else one
# character per column, "0" for null. The stored release is only read where versions are equal: most rows never need it.
HASHES = """
local ttl, marker, columns = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local released = ARGV[3] == '1'
local before = released and 5 or 3
local at, applied, answer = 4 + columns, 0, {0}
local release, seen_release = '0', '0'
local function release_of(key)
  local found = redis.call('HGET', key, '_release')
  return found and tonumber(found) or 0
end
for i, key in ipairs(KEYS) do
  local version, seen, mask = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  if released then release, seen_release = ARGV[at + 4], ARGV[at + 5] end
  local old = redis.pcall('HGET', key, '_version')
  if type(old) == 'table' then
    answer[#answer + 1] = i - 1
    answer[#answer + 1] = old.err
  elseif old and (old ~= seen or seen == '') and not string.match(old, '^%d+$') then
    answer[#answer + 1] = i - 1
    answer[#answer + 1] = 'the _version of the hash under this key is no number'
  elseif not old or tonumber(version) > tonumber(old)
      or (release ~= '0' and tonumber(version) == tonumber(old) and tonumber(release) > release_of(key))
      or (old == seen and tonumber(seen_release) == release_of(key)) then
    applied = applied + 1
    if mask == '-' then
      redis.call('HSET', key, '_version', version)
      redis.call('DEL', key)
      redis.call('HSET', key, '_version', version, '_deleted', '1')
      if release ~= '0' then redis.call('HSET', key, '_release', release) end
      redis.call('PEXPIRE', key, marker)
    else
      local pairs_, count = {'_version', version}, 1
      if release ~= '0' then
        pairs_[3], pairs_[4] = '_release', release
        count = 2
      end
      for column = 1, columns do
        if mask == '' or string.byte(mask, column) == 49 then
          pairs_[#pairs_ + 1] = ARGV[4 + column]
          pairs_[#pairs_ + 1] = ARGV[at + before + column]
          count = count + 1
        end
      end
      redis.call('HSET', key, unpack(pairs_))
      if redis.call('HLEN', key) ~= count then
        local wanted = {}
        for n = 1, #pairs_, 2 do wanted[pairs_[n]] = true end
        for _, name in ipairs(redis.call('HKEYS', key)) do
          if not wanted[name] then redis.call('HDEL', key, name) end
        end
      end
      -- Also of a new row: another program's hash may be under its key, with a time to live.
      if ttl > 0 then redis.call('PEXPIRE', key, ttl) else redis.call('PERSIST', key) end
    end
  end
  at = at + before + columns
end
answer[1] = applied
return answer
"""

# KEYS: the rows' keys. Rows no longer expire; the marks of deleted ones still do.
PERSIST_HASHES = """
for _, key in ipairs(KEYS) do
  local found = redis.call('HMGET', key, '_version', '_deleted')
  if found[1] and not found[2] then redis.call('PERSIST', key) end
end
"""
PERSIST_TEXTS = """
for _, key in ipairs(KEYS) do
  local text = redis.call('GET', key)
  local is_mark = text and (string.match(text, '^{"_version": %d+, "_deleted": true}$')
    or string.match(text, '^{"_version": %d+, "_release": %d+, "_deleted": true}$'))
  if text and not is_mark and string.match(text, '^{"_version": %d+[,}]') then redis.call('PERSIST', key) end
end
"""

# KEYS: the rows' keys. ARGV: ttl and marker ttl in ms (0: none), 1 if the rows have releases; then for each row its
# version, the seen version, the text, "" for a deleted row, and if they have them its release and the seen one.
TEXTS = """
local ttl, marker = tonumber(ARGV[1]), tonumber(ARGV[2])
local released = ARGV[3] == '1'
local before = released and 5 or 3
local at, applied, answer = 3, 0, {0}
local release, seen_release = '0', '0'
local function release_of(row)
  local found = string.match(row, '^{"_version": %d+, "_release": (%d+)[,}]')
  return found and tonumber(found) or 0
end
for i, key in ipairs(KEYS) do
  local version, seen, text = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  if released then release, seen_release = ARGV[at + 4], ARGV[at + 5] end
  local row = redis.pcall('GET', key)
  if type(row) == 'table' then
    answer[#answer + 1] = i - 1
    answer[#answer + 1] = row.err
  else
    local old = row and string.match(row, '^{"_version": (%d+)[,}]')
    if not old or tonumber(version) > tonumber(old)
        or (release ~= '0' and tonumber(version) == tonumber(old) and tonumber(release) > release_of(row))
        or (old == seen and tonumber(seen_release) == release_of(row)) then
      applied = applied + 1
      if text == '' then
        local of_release = release ~= '0' and ', "_release": ' .. release or ''
        redis.call('SET', key, '{"_version": ' .. version .. of_release .. ', "_deleted": true}', 'PX', marker)
      elseif ttl > 0 then
        redis.call('SET', key, text, 'PX', ttl)
      else
        redis.call('SET', key, text)
      end
    end
  end
  at = at + before
end
answer[1] = applied
return answer
"""
