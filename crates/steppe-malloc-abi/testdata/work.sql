-- A database in memory and its queries: what they print is the same on every run.
PRAGMA cache_size = -20000;
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, body TEXT, score REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
INSERT INTO item SELECT i, 'name ' || (i * 7919 % 10007), printf('%.*c', i % 300, 'x'), i * 31 % 1009 FROM n;
CREATE INDEX item_name ON item (name);
CREATE INDEX item_score ON item (score, name);
SELECT count(*), sum(length(body)), avg(score) FROM item;
SELECT a.name, count(*), group_concat(b.id) FROM item a JOIN item b ON a.name = b.name
  WHERE a.score < 3 GROUP BY a.name ORDER BY 2 DESC, 1 LIMIT 20;
UPDATE item SET body = body || name WHERE id % 3 = 0;
DELETE FROM item WHERE id % 5 = 0;
SELECT count(*), sum(length(body)), max(name) FROM item;
CREATE TABLE pair AS SELECT json_object('id', id, 'name', name, 'body', substr(body, 1, 40)) AS j FROM item;
SELECT sum(json_extract(j, '$.id')), count(DISTINCT json_extract(j, '$.name')) FROM pair;
VACUUM;
PRAGMA integrity_check;
SELECT score, row_number() OVER (PARTITION BY score ORDER BY name, id), name FROM item
  WHERE score BETWEEN 100 AND 101 ORDER BY 1, 2 LIMIT 30;
