// A thread pool for parallel loops.
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "jit/base/text.h"
#include "jitstep/jit/error.h"
#include "tuning/host_device.h"

namespace jitstep::tuning {
namespace {

using Body = std::function<void(std::int64_t, std::int64_t)>;

class Pool {
 public:
  explicit Pool(int threads) {
    try {
      for (int i = 1; i < threads; ++i) threads_.emplace_back([this, i] { serve(i); });
    } catch (const std::system_error& error) {
      end();
      throw jit::Error(jit::str_cat("cannot start ", threads, " threads: ", error.code().message(),
                                    ". Use fewer, or raise the limit of processes."));
    }
  }
  ~Pool() { end(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void run(std::int64_t count, std::int64_t grain, const Body& body) {
    const auto all = static_cast<std::int64_t>(threads_.size()) + 1;
    const std::int64_t parts = std::min(all, (count + grain - 1) / grain);
    if (parts < 2) return body(0, count);
    {
      const std::lock_guard lock(mutex_);
      body_ = &body, count_ = count, parts_ = parts;
      running_ = static_cast<int>(threads_.size());
      ++generation_;
    }
    started_.notify_all();
    do_part(0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return running_ == 0; });
  }

 private:
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    started_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void do_part(std::int64_t part) const {
    if (part < parts_) (*body_)(count_ * part / parts_, count_ * (part + 1) / parts_);
  }

  void serve(int part) {
    std::unique_lock lock(mutex_);
    for (std::uint64_t seen = 0;;) {
      started_.wait(lock, [&] { return ended_ || generation_ != seen; });
      if (ended_) return;
      seen = generation_;
      lock.unlock();
      do_part(part);
      lock.lock();
      if (--running_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable started_, done_;
  const Body* body_ = nullptr;
  std::int64_t count_ = 0, parts_ = 0;
  int running_ = 0;
  std::uint64_t generation_ = 0;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

jit::ParallelFor thread_pool(int threads) {
  if (threads < 2) return {};
  const auto pool = std::make_shared<Pool>(threads);
  return [pool](std::int64_t count, std::int64_t grain, const Body& body) {
    pool->run(count, grain, body);
  };
}

}  // namespace jitstep::tuning
