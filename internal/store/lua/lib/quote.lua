-- quote(s) returns a text as a string of JSON, base64(s) as base64.
-- Bound the length of the text.
local short = {['"'] = '\\"', ['\\'] = '\\\\', ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t'}
local function quote(s)
  return '"' .. string.gsub(s, '[%z\1-\31"\\]', function(c) return short[c] or string.format('\\u%04x', string.byte(c)) end) .. '"'
end

local letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
local function base64(s)
  local out, n = {}, 0
  for i = 1, #s, 3 do
    local a, b, c = string.byte(s, i, i + 2)
    local x = a * 65536 + (b or 0) * 256 + (c or 0)
    local group = ''
    for shift = 3, 0, -1 do
      local at = math.floor(x / 64 ^ shift) % 64
      group = group .. string.sub(letters, at + 1, at + 1)
    end
    if not b then group = string.sub(group, 1, 2) .. '==' elseif not c then group = string.sub(group, 1, 3) .. '=' end
    n = n + 1
    out[n] = group
  end
  return table.concat(out)
end
