"""The compare-and-set of Redis rows, one batch per call. Redis runs scripts atomically, so nothing happens between the
comparison and the write.

Both scripts promise: a row is written only if its version is greater than the stored one (or the stored one is exactly
the seen one); the first write of a row needs memory, so that a full Redis refuses before any part of the row is lost;
the answer is the number of rows applied, then index and error of every key that could not be compared.
"""

# KEYS: the rows' keys. ARGV: ttl and marker ttl in ms (0: none), the number of columns, their names; then for each row
# its version, the seen version ("" for none), its mask and one value per column. Mask: "" if every column has a value,
# "-" for a deleted row, else one character per column, "0" for null.
HASHES = """
local ttl, marker, columns = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local at, applied, answer = 3 + columns, 0, {0}
for i, key in ipairs(KEYS) do
  local version, seen, mask = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local old = redis.pcall('HGET', key, '_version')
  if type(old) == 'table' then
    answer[#answer + 1] = i - 1
    answer[#answer + 1] = old.err
  elseif old and (old ~= seen or seen == '') and not string.match(old, '^%d+$') then
    answer[#answer + 1] = i - 1
    answer[#answer + 1] = 'the _version of the hash under this key is no number'
  elseif not old or tonumber(version) > tonumber(old) or old == seen then
    applied = applied + 1
    if mask == '-' then
      redis.call('HSET', key, '_version', version)
      redis.call('DEL', key)
      redis.call('HSET', key, '_version', version, '_deleted', '1')
      redis.call('PEXPIRE', key, marker)
    else
      local pairs_, count = {'_version', version}, 1
      for column = 1, columns do
        if mask == '' or string.byte(mask, column) == 49 then
          pairs_[#pairs_ + 1] = ARGV[3 + column]
          pairs_[#pairs_ + 1] = ARGV[at + 3 + column]
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
      if ttl > 0 then redis.call('PEXPIRE', key, ttl) elseif old then redis.call('PERSIST', key) end
    end
  end
  at = at + 3 + columns
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
  local is_mark = text and string.match(text, '^{"_version": %d+, "_deleted": true}$')
  if text and not is_mark and string.match(text, '^{"_version": %d+[,}]') then redis.call('PERSIST', key) end
end
"""

# KEYS: the rows' keys. ARGV: ttl and marker ttl in ms (0: none); then for each row its version, the seen version, and
# the text, "" for a deleted row.
TEXTS = """
local ttl, marker = tonumber(ARGV[1]), tonumber(ARGV[2])
local at, applied, answer = 2, 0, {0}
for i, key in ipairs(KEYS) do
  local version, seen, text = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local old = redis.pcall('GET', key)
  if type(old) == 'table' then
    answer[#answer + 1] = i - 1
    answer[#answer + 1] = old.err
  else
    old = old and string.match(old, '^{"_version": (%d+)[,}]')
    if not old or tonumber(version) > tonumber(old) or old == seen then
      applied = applied + 1
      if text == '' then
        redis.call('SET', key, '{"_version": ' .. version .. ', "_deleted": true}', 'PX', marker)
      elseif ttl > 0 then
        redis.call('SET', key, text, 'PX', ttl)
      else
        redis.call('SET', key, text)
      end
    end
  end
  at = at + 3
end
answer[1] = applied
return answer
"""
