-- The start of a record up to its stamps: due, made and, if it has been scheduled again, first.
--   stamps(record)  returns the length of this start, and whether it has first; nil of an unreadable record
local function stamps(record)
  local _, made = string.find(record, '^{"due":%d+,"made":%d+')
  if not made then return nil end
  local _, first = string.find(record, '^,"first":%-?%d+', made + 1)
  return first or made, first ~= nil
end
