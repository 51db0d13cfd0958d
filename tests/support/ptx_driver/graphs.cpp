// Events, captures and graphs of the driver.
#include <iterator>
#include <utility>

#include "support/ptx_driver/driver.h"

namespace jitstep::ptx::driver {

// ---- events -------------------------------------------------------------------------------------

int Driver::create_event(void** event) {
  if (current() == nullptr) return kInvalidContext;
  *event = events_.insert(std::make_unique<Event>()).first->get();
  return 0;
}

int Driver::record(void* handle, void* on) {
  Event* const event = find(events_, handle);
  Stream* const queue = stream(on);
  if (event == nullptr || queue == nullptr) return kInvalidHandle;
  event->captured = queue->captured != nullptr;
  if (event->captured) return 0;
  arrange(*queue);
  event->seen = queue->seen;
  return 0;
}

int Driver::wait(void* on, void* handle) {
  const Event* const event = find(events_, handle);
  Stream* const queue = stream(on);
  if (event == nullptr || queue == nullptr) return kInvalidHandle;
  if (event->captured && queue->captured == nullptr) return kCapturedEvent;
  if (!event->captured && queue->captured != nullptr) return kCaptureIsolation;
  join(queue->seen, event->seen);
  return 0;
}

int Driver::destroy_event(void* event) {
  return find(events_, event) == nullptr ? kInvalidHandle : (events_.erase(events_.find(event)), 0);
}

// ---- graphs -------------------------------------------------------------------------------------

// Unlike on a GPU, the default stream can be captured: the emulated device of the Python tests has no other one.
int Driver::begin_capture(Stream& queue, int mode) {
  constexpr int kRelaxed = 2;
  if (queue.captured != nullptr) return kIllegalState;
  queue.captured = std::make_unique<Graph>();
  queue.relaxed = mode == kRelaxed;
  return 0;
}

// A call that may wait for the device fails during a capture on it, and invalidates the capture.
int Driver::refuse_in_captures(const Device& device, bool also_relaxed) {
  int code = 0;
  for (const auto& queue : streams_) {
    if (queue->device != &device || queue->captured == nullptr) continue;
    if (queue->relaxed && !also_relaxed) continue;
    queue->invalidated = true;
    code = kCaptureUnsupported;
  }
  return code;
}

int Driver::synchronize_context(const Device& device) {
  const int code = refuse_in_captures(device, true);
  return code != 0 ? code : synchronize(device);
}

int Driver::end_capture(Stream& queue, void** graph) {
  if (queue.captured == nullptr) return kIllegalState;
  if (std::exchange(queue.invalidated, false)) {
    queue.captured.reset();
    *graph = nullptr;
    return kCaptureInvalidated;
  }
  *graph = graphs_.insert(std::move(queue.captured)).first->get();
  return 0;
}

int Driver::instantiate(void** made, void* handle) {
  const Graph* const graph = find(graphs_, handle);
  if (graph == nullptr) return kInvalidHandle;
  *made = graphs_.insert(std::make_unique<Graph>(*graph)).first->get();
  return 0;
}

int Driver::launch_graph(void* handle, Stream& queue) {
  const Graph* const graph = find(graphs_, handle);
  if (graph == nullptr) return kInvalidHandle;
  if (queue.captured != nullptr) return kCaptureUnsupported;
  for (const auto& one : graph->work)
    if (const int code = one(queue)) return code;
  return 0;
}

int Driver::destroy_graph(void* graph) {
  return find(graphs_, graph) == nullptr ? kInvalidHandle : (graphs_.erase(graphs_.find(graph)), 0);
}

}  // namespace jitstep::ptx::driver
