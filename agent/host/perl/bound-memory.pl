# Begins programs that read trees of guests: how much memory they need is up to a guest, and so it is limited
# (RLIMIT_DATA of prlimit(2)). The programs limit themselves below it; this is the limit for what they overlook.
use POSIX ();
{
  my $most = 512 << 20;
  my $prlimit64 = (POSIX::uname())[4] eq 'aarch64' ? 261 : 302;
  syscall($prlimit64, 0, 2, pack('Q2', $most, $most), 0) == 0 or die "memory limit: $!\n";
}
