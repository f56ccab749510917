package bench;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.DoubleStream;

/** Counts what completes until a deadline. */
final class Stopwatch {
  private static final double NANOSECONDS = 1e9;

  private final AtomicLong count = new AtomicLong();
  private final long start = System.nanoTime();
  private final long length;
  private final DoubleStream.Builder latencies; // null where requests are not measured one by one
  private long before = start;

  Stopwatch(double seconds, boolean oneByOne) {
    length = (long) (seconds * NANOSECONDS);
    latencies = oneByOne ? DoubleStream.builder() : null;
  }

  boolean isRunning() {
    return System.nanoTime() - start < length;
  }

  long count() {
    return count.get();
  }

  void add() {
    add(1);
    if (latencies != null) {
      long now = System.nanoTime();
      latencies.add((now - before) / NANOSECONDS);
      before = now;
    }
  }

  void add(long more) {
    count.addAndGet(more);
  }

  /** The outcome as of now. */
  Map<String, Object> outcome() {
    var result = new LinkedHashMap<String, Object>();
    result.put("count", count.get());
    result.put("elapsed", (System.nanoTime() - start) / NANOSECONDS);
    if (latencies != null) {
      double[] ordered = latencies.build().sorted().toArray();
      int last = ordered.length - 1;
      result.put(
          "latencies", Arrays.asList(ordered[last / 2], ordered[(int) (last * 0.99)]));
    }
    return result;
  }
}
