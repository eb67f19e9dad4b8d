# Runs a program and writes its output to a new file beneath a tree, with holes instead of zeros. Arguments: the tree,
# the file's path in it, its size, then the program. The times of its directory do not change.
use strict;
use warnings;
use Fcntl qw(:DEFAULT);
use POSIX ();

my ($tree, $path, $size, @program) = @ARGV;
my ($openat2, $resolve, $block, $at_once) = (437, 0x0f, 4096, 1 << 20);
my ($nr_statx, $nr_utimensat) = (332, 280);
($nr_statx, $nr_utimensat) = (291, 88) if (POSIX::uname())[4] eq 'aarch64';
my $zeros = "\0" x $block;
my ($above, $name) = $path =~ m{^(?:(.*)/)?([^/]+)$} or die "$path: not a file\n";
sysopen(my $top, $tree, O_RDONLY | O_DIRECTORY | O_NOFOLLOW) or die "$tree: $!\n";
my ($directory, $how) = ($above // '.', pack('Q3', O_RDONLY | O_DIRECTORY | 02000000, 0, $resolve));
my $fd = syscall($openat2, fileno $top, $directory, $how, length $how);
die "$directory: $!\n" if $fd < 0;
my ($stat, $empty) = ("\0" x 256, '');
syscall($nr_statx, $fd, $empty, 0x1000, 0x7ff, $stat) == 0 or die "$directory: $!\n"; # AT_EMPTY_PATH
my $times = pack('q4', unpack('x64 q L', $stat), unpack('x112 q L', $stat)); # access, change of content
sysopen(my $file, "/proc/self/fd/$fd/$name", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600) or die "$path: $!\n";

syscall($nr_utimensat, $fd, 0, $times, 0) == 0 or die "$directory: $!\n";

my $child = open(my $output, '-|') // die "fork: $!\n";
if (!$child) {
  exec { $program[0] } @program;
  die "$program[0]: $!\n";
}
binmode $output;

sub write_at {
  my ($offset, $data) = @_;
  return if $data eq '';
  sysseek($file, $offset, 0) or die "$path: $!\n";
  (syswrite($file, $data) // -1) == length $data or die "$path: $!\n";
}

sub write_sparse {
  my ($offset, $data) = @_;
  my ($start, $at) = (0, 0);
  for (; $at < length $data; $at += $block) {
    next if substr($data, $at, $block) ne $zeros;
    write_at($offset + $start, substr($data, $start, $at - $start));
    $start = $at + $block;
  }
  write_at($offset + $start, substr($data, $start)) if $start < length $data;
}

my ($offset, $data) = (0, '');
while (1) {
  my $count = sysread($output, $data, $at_once - length $data, length $data) // die "read: $!\n";
  next if $count > 0 && length $data < $at_once;
  die "$path: longer than it should be\n" if $offset + length $data > $size;
  write_sparse($offset, $data);
  $offset += length $data;
  $data = '';
  last if $count == 0;
}
close $output;
exit($? >> 8 || 1) if $?;
die "$path: shorter than it should be\n" if $offset != $size;
truncate($file, $size) && close $file or die "$path: $!\n";
