#!/bin/sh
# A save in the background: the child of a fork writes while the parent changes its data.
. "$(dirname "$0")/lib.sh"
need redis-server redis-cli
short_folder
redis-server --port 0 --unixsocket "$folder/s" --dir "$work" --save '' --dbfilename kept.rdb >log 2>&1 &
server=$!
ask() { redis-cli -s "$folder/s" "$@"; }
saved() { ask info persistence | grep -q 'rdb_bgsave_in_progress:0'; }
await ask ping
fill="for i = 1, 20000 do redis.call('set', 'k' .. i, string.rep(ARGV[1], i * 37 % 3000)) end return 'filled'"
for letter in a b c; do
  ask eval "$fill" 0 $letter
  ask bgsave
  ask eval "for i = 1, 20000, 2 do redis.call('append', 'k' .. i, 'x') end return 'changed'" 0
  await saved
  ask info persistence | grep rdb_last_bgsave_status
done
ask eval "local n = 0 for i = 1, 20000 do n = n + #redis.call('get', 'k' .. i) end return n" 0
ask shutdown nosave || true
wait "$server" && echo ended
redis-check-rdb kept.rdb | grep -c 'RDB looks OK'
