#include "support/recording_backend.h"

#include <utility>

#include "jit/base/args.h"

namespace jitstep::support {

class RecordingBackend::RecordedLaunches : public jit::Launches {
 public:
  RecordedLaunches(RecordingBackend& backend, std::unique_ptr<jit::Launches> inner)
      : backend_(backend), inner_(std::move(inner)) {}

  void launch(int entry, const Args& args) override {
    if (!backend_.recording_) return inner_->launch(entry, args);
    backend_.work_.push_back([inner = inner_, entry, args] { inner->launch(entry, args); });
  }

 private:
  RecordingBackend& backend_;
  std::shared_ptr<jit::Launches> inner_;  // shared, because a graph outlives the launches
};

void RecordingBackend::record(const std::function<void()>& work) {
  work_.clear();
  recording_ = true;
  try {
    work();
  } catch (...) {
    recording_ = false;
    throw;
  }
  recording_ = false;
}

void RecordingBackend::replay() const {
  for (const auto& one : work_) one();
}

emulation::Graphs RecordingBackend::graphs() {
  return {[this](const std::function<void()>& work) { record(work); }, [this] { replay(); }};
}

std::shared_ptr<const jit::Kernel> RecordingBackend::load(const std::string& text,
                                                          const std::string& name) {
  check_not_capturing();
  return on_.load(text, name);
}

std::unique_ptr<jit::Launches> RecordingBackend::launches(std::shared_ptr<const jit::Kernel> kernel,
                                                          const std::vector<std::string>& entries,
                                                          const jit::KernelConfig& config) {
  return std::make_unique<RecordedLaunches>(*this,
                                            on_.launches(std::move(kernel), entries, config));
}

void RecordingBackend::upload(void* to, const void* from, std::size_t bytes) {
  if (!recording_) return on_.upload(to, from, bytes);
  work_.push_back([this, to, from, bytes] { on_.upload(to, from, bytes); });
}

}  // namespace jitstep::support
