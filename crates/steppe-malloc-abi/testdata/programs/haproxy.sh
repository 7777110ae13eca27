#!/bin/sh
. "$(dirname "$0")/lib.sh"
need haproxy curl
short_folder
cat >config <<END
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 60s
  compression algo gzip
  compression type text/plain
frontend front
  bind unix@$folder/front
  http-request set-header x-seen %[path,base64]
  default_backend back
backend back
  server one unix@$folder/back
frontend origin
  bind unix@$folder/back
  http-request return status 200 content-type text/plain lf-string "%[path] %[req.fhdr(x-seen)]" if { path_beg /a }
  http-request return status 404 content-type text/plain string none
END
haproxy -f config -db >log 2>&1 &
server=$!
ask() { curl --silent --show-error --unix-socket "$folder/front" "$@"; }
await ask http://h/a
for round in 1 2 3; do
  ask "http://h/a$round?[1-200]" | sha256sum
  ask --compressed "http://h/a$round" --data-binary @config | cut -c1-9
  ask -o /dev/null -w '%{http_code}\n' "http://h/b[1-50]" | sort | uniq -c
done
kill -USR1 "$server"
wait "$server" && echo ended
haproxy -c -f config
