# Prints which of some plain files a guest's root has, one a line. Arguments: the root, then paths in it. As in change-root,
# openat2(2) lets no link, mount or `..` lead out of the root, and nothing is opened.
use Fcntl qw(:DEFAULT :mode);
my ($openat2, $resolve, $path_only) = (437, 0x0f, 012000000); # O_PATH | O_CLOEXEC
my ($root, @paths) = @ARGV;
sysopen(my $top, $root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW) or die "root: $!\n";
for my $path (@paths) {
  my $how = pack('Q3', $path_only, 0, $resolve);
  my $fd = syscall($openat2, fileno $top, "$path", $how, length $how);
  next if $fd < 0;
  open(my $handle, '<&=', $fd) or die "$path: $!\n";
  print "$path\n" if S_ISREG((stat $handle)[2]);
}
