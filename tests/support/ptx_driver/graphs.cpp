// Events, captures and graphs of the driver.
#include <iterator>

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

int Driver::begin_capture(Stream& queue) {
  if (queue.captured != nullptr) return kIllegalState;
  queue.captured = std::make_unique<Graph>();
  return 0;
}

int Driver::end_capture(Stream& queue, void** graph) {
  if (queue.captured == nullptr) return kIllegalState;
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
