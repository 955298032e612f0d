-- Reads and changes the due time in a record: see record.lua.
--   duein(record)             returns the due time as a number, nil of an unreadable record
--   dated(record, due, keep)  returns the record with another due time, given as text; nil of an unreadable record, which stays as it is.
--                             keep adds the due time of the creation as "first", unless the record has it: see schedule.go
--   append(record, text)      returns the record with members appended; an unreadable record is returned unchanged
local function duein(record) return tonumber(string.match(record, '^{"due":(%d+)')) end
local function dated(record, due, keep)
  local first, stamp, tail = string.match(record, '^{"due":(%d+)(,"made":%d+)(.*)$')
  if not first then return nil end
  if keep and string.sub(tail, 1, 9) ~= ',"first":' then stamp = stamp .. ',"first":' .. first end
  return '{"due":' .. due .. stamp .. tail
end
local function append(record, text)
  return string.find(record, '^{"due":%d+,.*}$') and string.sub(record, 1, -2) .. text .. '}' or record
end
