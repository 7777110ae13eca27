-- One line of JSON after wrk's own report: `--latency` stops at p99, and text is no interface.
-- Only done() is defined, so wrk's request path stays the one without Lua.
function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    'steppe-bench {"requests":%d,"bytes":%d,"duration_us":%d,' ..
    '"p50_us":%d,"p99_us":%d,"p999_us":%d,' ..
    '"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}\n',
    summary.requests, summary.bytes, summary.duration,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9),
    errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
