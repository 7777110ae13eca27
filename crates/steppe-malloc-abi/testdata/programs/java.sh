#!/bin/sh
. "$(dirname "$0")/lib.sh"
need java
java --list-modules 2>/dev/null | grep -q '^jdk.compiler' || missing "a compiler of Java is not installed"
cat >Work.java <<'END'
import java.nio.ByteBuffer; import java.util.*; import java.util.stream.*; import java.util.zip.*;
public class Work {
  public static void main(String[] a) throws Exception {
    Map<String, List<String>> words = IntStream.range(0, 200_000).parallel().mapToObj(i -> "k" + i % 5000)
        .collect(Collectors.groupingByConcurrent(k -> k));
    System.out.println(words.size() + " " + words.values().stream().mapToInt(List::size).sum());
    long sum = 0;
    for (int i = 0; i < 500; i++) { ByteBuffer b = ByteBuffer.allocateDirect(10_000 + i * 100); b.put(5, (byte) i); sum += b.get(5); }
    System.gc();
    byte[] text = "steppe ".repeat(200_000).getBytes();
    Deflater d = new Deflater(); d.setInput(text); d.finish(); byte[] out = new byte[text.length];
    int n = d.deflate(out); d.end(); CRC32 crc = new CRC32(); crc.update(out, 0, n);
    System.out.println(sum + " " + n + " " + crc.getValue());
    List<Thread> threads = new ArrayList<>();
    for (int t = 0; t < 32; t++) { Thread one = new Thread(() -> new StringBuilder("x".repeat(1_000_000)).reverse()); one.start(); threads.add(one); }
    for (Thread one : threads) one.join();
    System.exit(3);
  }
}
END
java -Xmx256m Work.java || echo "exit code $?"
