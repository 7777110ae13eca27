<?php
$words = [];
for ($i = 0; $i < 100000; $i++) $words["k" . $i % 5000][] = md5((string)$i);
ksort($words);
echo count($words), " ", sha1(serialize($words)), "\n";
preg_match_all('/[a-f]{3}\d+/', implode(",", array_merge(...array_values($words))), $found);
echo count($found[0]), " ", sha1(json_encode($found)), "\n";
$tree = null;
for ($i = 0; $i < 20000; $i++) $tree = (object)["next" => $i % 100 ? $tree : null, "value" => $i];
echo strlen(var_export($tree, true)), " ", strlen(gzcompress(str_repeat("steppe ", 100000))), "\n";
function fibonacci($n) { return $n < 2 ? $n : fibonacci($n - 1) + fibonacci($n - 2); }
echo fibonacci(22), "\n";
