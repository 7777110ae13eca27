#!/bin/sh
. "$(dirname "$0")/lib.sh"
need ruby
ruby -e '
words = Hash.new { |hash, key| hash[key] = [] }
200_000.times { |i| words["k#{i % 5000}"] << i.to_s * (i % 7 + 1) }
puts words.size, words.values.sum { |list| list.sum(&:size) }
threads = 8.times.map { |n| Thread.new { (1..20_000).map { |i| (i * n).to_s.reverse }.sort.last } }
puts threads.map(&:value)
GC.start; GC.compact if GC.respond_to?(:compact)
puts words.keys.sort.first(3), [1, 2.5, nil, words.size].inspect, "x" * 10 ** 6 =~ /y/ ? 1 : 0
pid = fork { puts words.delete("k1").size; GC.start; exit! 3 }
Process.wait(pid); puts $?.exitstatus
r = Ractor.new { (1..1000).map { |i| i.to_s * 3 }.join.size } rescue nil
puts r ? r.take : 5679
' 2>/dev/null
