/*
 * Least program that captures a monitor through libpulse's asynchronous API and wakes an event loop on another thread for each
 * fragment, which is what a capture has to do at least: for bench/floor.mjs. It copies fragments to memory of its own and asks
 * for the server's timing report four times a second. Arguments: ms of a fragment, and 1 to wake the other thread or 0.
 */
#include <pthread.h>
#include <pulse/pulseaudio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static const pa_sample_spec spec = {PA_SAMPLE_S16LE, 48000, 2};
static int fragment_ms, bell = -1;
static char memory[1 << 16];

static void *event_loop(void *unused) {
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  epoll_ctl(epoll, EPOLL_CTL_ADD, bell, &event);
  for (uint64_t count;;) {
    epoll_wait(epoll, &event, 1, -1);
    if (read(bell, &count, sizeof count) < 0) return unused;
  }
}

static void on_readable(pa_stream *stream, size_t bytes, void *unused) {
  static time_t asked_quarter;
  const void *data;
  for (; pa_stream_readable_size(stream) > 0; pa_stream_drop(stream)) {
    if (pa_stream_peek(stream, &data, &bytes) < 0 || bytes == 0) return;
    if (data != NULL) memcpy(memory, data, bytes < sizeof memory ? bytes : sizeof memory);
  }
  const uint64_t one = 1;
  if (bell >= 0 && write(bell, &one, sizeof one) < 0) exit(1);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const time_t quarter = now.tv_sec * 4 + now.tv_nsec / 250000000;
  if (quarter == asked_quarter) return;
  asked_quarter = quarter;
  pa_operation *operation = pa_stream_update_timing_info(stream, NULL, NULL);
  if (operation != NULL) pa_operation_unref(operation);
  (void)unused;
}

static void on_state(pa_context *context, void *unused) {
  if (pa_context_get_state(context) != PA_CONTEXT_READY) return;
  pa_stream *stream = pa_stream_new(context, "floor", &spec, NULL);
  const uint32_t any = UINT32_MAX;
  const pa_buffer_attr attributes = {any, any, any, any, (uint32_t)pa_usec_to_bytes(fragment_ms * 1000, &spec)};
  pa_stream_set_read_callback(stream, on_readable, unused);
  pa_stream_connect_record(stream, "zc.monitor", &attributes, PA_STREAM_ADJUST_LATENCY | PA_STREAM_DONT_MOVE);
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  fragment_ms = atoi(arguments[1]);
  pthread_t thread;
  if (atoi(arguments[2]) == 1) {
    bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_create(&thread, NULL, event_loop, NULL);
  }
  pa_mainloop *loop = pa_mainloop_new();
  pa_context *context = pa_context_new(pa_mainloop_get_api(loop), "floor");
  pa_context_set_state_callback(context, on_state, NULL);
  pa_context_connect(context, NULL, PA_CONTEXT_NOAUTOSPAWN, NULL);
  int result;
  return pa_mainloop_run(loop, &result);
}
