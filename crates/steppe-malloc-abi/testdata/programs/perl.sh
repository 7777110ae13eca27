#!/bin/sh
. "$(dirname "$0")/lib.sh"
need perl
perl -e '
my %words; for my $i (0 .. 200000) { push @{$words{"k" . $i % 5000}}, $i x ($i % 7 + 1) }
my $size = 0; $size += length $_ for map { @$_ } values %words; print scalar(keys %words), " $size\n";
my @list = map { { n => $_, text => "x" x ($_ % 500) } } 1 .. 100000; @list = (); print scalar(@list), "\n";
my $text = join ",", sort keys %words; my $n = () = $text =~ /k(\d)\1/g; print "$n\n";
my $big = "a" x 50_000_000; substr($big, 10, 100) = "b" x 200; print length($big), "\n"; undef $big;
print `echo from a pipe`; my $pid = fork; if (!$pid) { %words = (); exit 3 } waitpid $pid, 0; print $? >> 8, "\n";
printf "%s\n", unpack("%32C*", join "", map { chr($_ % 256) } 1 .. 300000);
'
