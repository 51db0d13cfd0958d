#include "support/ptx/shadow.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace jitstep::ptx {
namespace {

std::string name_of(std::uint32_t launch, std::uint32_t thread, const Here& here) {
  if (launch != here.launch) return "launch " + std::to_string(launch);
  return "thread " + std::to_string(thread % Here::kThreads) + " of block " +
         std::to_string(thread / Here::kThreads);
}

constexpr char kReads[] = "reads", kWrites[] = "writes", kRead[] = "read", kWritten[] = "written";

// Two accesses are not ordered: the current one and an earlier one.
[[noreturn]] void refuse(const char* does, const auto& earlier, const char* done,
                         const Here& here) {
  throw Fault{kLaunchFailed, std::string(does) + " memory that " +
                                 name_of(earlier.launch, earlier.thread, here) + " has " + done +
                                 ", with no barrier or order between"};
}

}  // namespace

void Shadow::Free::operator()(Cell* cells) const { std::free(cells); }

// calloc does not commit memory for zeros that are never touched, which matters with large tensors.
Shadow::Cells Shadow::make(std::size_t count) {
  static_assert(std::is_trivially_copyable_v<Cell>);
  void* const cells = std::calloc(std::max<std::size_t>(count, 1), sizeof(Cell));
  if (cells == nullptr) throw std::bad_alloc();
  return Cells(static_cast<Cell*>(cells));
}

Shadow::Shadow(std::size_t bytes, Unwritten unwritten)
    : bytes_(bytes), unwritten_(unwritten), cells_(make(count())) {}

void Shadow::forget() { cells_ = make(count()); }

Shadow::Scope Shadow::scope_of(const Stamp& stamp, const Here& here) {
  if (stamp.thread / Here::kThreads != here.thread / Here::kThreads) return Scope::grid;
  if (stamp.thread / Here::kWarp != here.thread / Here::kWarp) return Scope::block;
  return stamp.thread != here.thread ? Scope::warp : Scope::thread;
}

bool Shadow::is_over(std::uint32_t launch, const Here& here) {
  return launch < here.order->below || here.order->before(launch);
}

bool Shadow::in_step(const Stamp& stamp, const Here& here, std::uint32_t warp_since) {
  if (stamp.launch != here.launch) return is_over(stamp.launch, here);
  const Scope scope = std::max(scope_of(stamp, here), stamp.scope);
  if (scope == Scope::thread) return true;
  if (scope == Scope::grid) return false;
  return stamp.time < here.block_since || (scope == Scope::warp && stamp.time < warp_since);
}

// Refines the cells until the range consists of whole cells.
void Shadow::suit(std::size_t at, std::size_t bytes) {
  int shift = shift_;
  const auto fits = [&] {
    const std::size_t rest = (std::size_t{1} << shift) - 1;
    return (at & rest) == 0 && (((at + bytes) & rest) == 0 || at + bytes == bytes_);
  };
  while (!fits()) --shift;
  if (shift == shift_) return;
  const int finer = shift_ - shift;
  const Cells old = std::move(cells_);
  shift_ = shift;
  cells_ = make(count());
  for (std::size_t i = 0; i < count(); ++i) cells_[i] = old[i >> finer];
}

void Shadow::read(std::size_t at, std::size_t bytes, const Here& here) {
  suit(at, bytes);
  const std::size_t end = (at + bytes - 1) >> shift_;
  for (std::size_t i = at >> shift_; i <= end; ++i) {
    const Stamp& w = cells_[i].written;
    if (w.launch == 0 && unwritten_ == Unwritten::refused)
      throw Fault{kLaunchFailed, "reads memory that was never written"};
    if (w.launch != 0 && !in_step(w, here, here.warp_since)) refuse(kReads, w, kWritten, here);
    Stamp& r = cells_[i].read;
    if (r.launch != here.launch && r.launch != 0 && !is_over(r.launch, here))
      cells_[i].other_reader = r.launch;
    Scope scope = Scope::thread;
    if (r.launch == here.launch && !in_step(r, here, here.warp_since))
      scope = std::max(scope_of(r, here), r.scope);
    r = {here.launch, here.time, here.thread, scope};
  }
}

void Shadow::write(std::size_t at, std::size_t bytes, const Here& here) {
  suit(at, bytes);
  const std::size_t end = (at + bytes - 1) >> shift_;
  for (std::size_t i = at >> shift_; i <= end; ++i) {
    Cell& cell = cells_[i];
    const Stamp &w = cell.written, &r = cell.read;
    if (w.launch != 0 && !in_step(w, here, here.warp_since)) refuse(kWrites, w, kWritten, here);
    if (r.launch != 0 && !in_step(r, here, here.warp_met)) refuse(kWrites, r, kRead, here);
    if (cell.other_reader != 0 && !is_over(cell.other_reader, here))
      refuse(kWrites, Stamp{.launch = cell.other_reader}, kRead, here);
    if (cell.constant == here.launch)
      throw Fault{kLaunchFailed, "writes memory that this launch has read as constant"};
    cell.other_reader = 0;
    cell.written = {here.launch, here.time, here.thread, Scope::thread};
  }
}

void Shadow::read_constant(std::size_t at, std::size_t bytes, const Here& here) {
  read(at, bytes, here);
  for (std::size_t i = at >> shift_; i <= (at + bytes - 1) >> shift_; ++i) {
    if (cells_[i].written.launch == here.launch)
      throw Fault{kLaunchFailed, "reads as constant what this launch has written"};
    cells_[i].constant = here.launch;
  }
}

void Shadow::download(std::size_t at, std::size_t bytes, const Here& here) const {
  for (std::size_t i = at >> shift_; i <= (at + bytes - 1) >> shift_; ++i) {
    const Stamp& w = cells_[i].written;
    if (w.launch != 0 && !is_over(w.launch, here)) refuse(kReads, w, kWritten, here);
  }
}

}  // namespace jitstep::ptx
