-- What the bench has the sqlite3 shell do: rows, indexes, joins, groups, texts and sorts, all in memory.
PRAGMA journal_mode = off;
PRAGMA temp_store = memory;
CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, city TEXT, born INTEGER);
CREATE TABLE visit (person INTEGER, place TEXT, day INTEGER, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
  INSERT INTO person SELECT i, printf('name %x', i * 2654435761 % 4294967296), 'city ' || (i * 7919 % 97), 1900 + i % 110 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
  INSERT INTO visit SELECT i * 7919 % 20000 + 1, 'place ' || (i % 211), i % 365, substr('a note of some length that differs', 1, i % 34) FROM n;
CREATE INDEX by_person ON visit (person, day);
CREATE INDEX by_city ON person (city, born);
SELECT city, count(*), sum(length(note)) FROM person JOIN visit ON visit.person = person.id GROUP BY city ORDER BY 3 DESC LIMIT 5;
SELECT place, group_concat(DISTINCT substr(name, 6, 2)) FROM person JOIN visit ON visit.person = person.id WHERE born > 1990 GROUP BY place ORDER BY length(group_concat(name)) LIMIT 3;
SELECT count(*) FROM (SELECT DISTINCT upper(name) || place || day FROM person JOIN visit ON visit.person = person.id);
UPDATE visit SET note = note || ' ' || (SELECT name FROM person WHERE id = visit.person);
DELETE FROM visit WHERE day % 3 = 0;
SELECT json_group_array(json_object('place', place, 'visits', visits)) FROM (SELECT place, count(*) AS visits FROM visit GROUP BY place ORDER BY visits LIMIT 20);
SELECT sum(length(note)), max(note) FROM visit;
