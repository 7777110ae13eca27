#!/bin/sh
# pgbench's transactions are random, but four sums are equal after any of them.
. "$(dirname "$0")/lib.sh"
programs=$(find /usr/lib/postgresql -name bin -type d 2>/dev/null | sort -V | tail -n 1)
[ -n "$programs" ] || missing "postgres is not installed"
PATH=$programs:$PATH
need initdb postgres pg_ctl pgbench psql
short_folder
cd "$folder"
unprivileged initdb -D d -A trust -U steppe --no-sync >"$work/initdb.log"
unprivileged postgres -D d -k "$folder" -h '' >"$work/log" 2>&1 &
server=$!
ask() { unprivileged psql -X -A -t -h "$folder" -U steppe -d postgres "$@"; }
await ask -c 'select 1'
unprivileged pgbench -h "$folder" -U steppe -i -s 2 -q postgres >"$work/fill.log" 2>&1
unprivileged pgbench -h "$folder" -U steppe -c 8 -j 2 -t 250 postgres 2>/dev/null | grep 'actually processed'
ask -c 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history),
  (select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers)'
ask -c "select count(*), sum(length(string)) from
  (select string_agg(md5(n::text), ',' order by n) as string from generate_series(1, 100000) n group by n % 1000) s"
ask -c 'set work_mem = 65536; select sum(hashtext(a::text || b::text)) from
  (select a, b from generate_series(1, 300) a, generate_series(1, 300) b order by a * 7 % 13, b) t'
unprivileged pg_ctl -D d -m fast stop >/dev/null
wait "$server" && echo ended
