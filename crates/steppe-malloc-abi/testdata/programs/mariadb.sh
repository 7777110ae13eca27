#!/bin/sh
. "$(dirname "$0")/lib.sh"
need mariadbd mariadb-install-db mariadb
short_folder
run_mariadbd() {
  unprivileged mariadbd --no-defaults --datadir="$folder/d" --socket="$folder/s" --skip-networking \
    --pid-file="$folder/p" --innodb-buffer-pool-size=32M
}
unprivileged mariadb-install-db --no-defaults --datadir="$folder/d" --auth-root-authentication-method=normal \
  --skip-test-db >install.log 2>&1
run_mariadbd >log 2>&1 &
server=$!
ask() { mariadb --no-defaults --socket="$folder/s" --user=root --batch --skip-column-names "$@"; }
await ask -e 'select 1'
ask <<'END'
create database d; use d;
create table t (id int primary key auto_increment, word varchar(200), body mediumblob, key (word)) engine = innodb;
insert into t (word, body) select concat('w', seq % 1000), repeat('x', seq % 5000) from seq_1_to_20000;
select count(*), sum(length(body)), count(distinct word) from t;
select word, count(*), max(length(body)) from t group by word order by word desc limit 5;
update t set body = reverse(concat(body, word)) where id % 3 = 0;
select a.word, count(*) from t a join t b on a.word = b.word where a.id < 2000 group by a.word order by 2, 1 limit 3;
select sum(crc32(body)) from (select body from t order by body, id limit 1000) sorted;
delete from t where id % 2 = 0;
select count(*), sum(crc32(body)) from t;
check table t;
END
ask -e shutdown
wait "$server" && echo ended
