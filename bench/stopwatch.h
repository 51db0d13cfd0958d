// Measures the time of work on a device, with the device's events if it is not the CPU.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include <chrono>
#include <functional>

namespace jitstep::bench {

/// Host seconds of `repeats` calls, without waiting for the device.
inline double host_seconds(int repeats, const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Seconds until the device has finished the work of `repeats` calls.
inline double seconds(const torch::Device& device, int repeats,
                      const std::function<void()>& action) {
  if (device.is_cpu()) return host_seconds(repeats, action);
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream stream = guard.getStream(device);
  c10::Event start(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  c10::Event end(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  stream.synchronize();
  start.record(stream);
  for (int i = 0; i < repeats; ++i) action();
  end.record(stream);
  end.synchronize();
  return start.elapsedTime(end) * 1e-3;
}

}  // namespace jitstep::bench
