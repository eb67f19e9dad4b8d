# Reads root's login from a guest's root: the password field, then the authorized keys. Argument: the root. Prints the
# password field on a line of its own, then the lines of the key files.
#
# openat2(2) follows links, but only inside the root: RESOLVE_IN_ROOT, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_XDEV. Only
# plain files of limited size are read; the type is checked before the file is opened.
use Fcntl qw(:DEFAULT :mode);
my ($openat2, $resolve, $path_only, $largest) = (437, 0x13, 010000000, 1 << 16);
sysopen(my $top, $ARGV[0], O_RDONLY | O_DIRECTORY | O_NOFOLLOW) or die "root: $!\n";

sub read_plain {
  my ($path, $most) = @_;
  my $how = pack('Q3', $path_only | 02000000, 0, $resolve); # O_CLOEXEC
  my $fd = syscall($openat2, fileno $top, "$path", $how, length $how);
  return '' if $fd < 0;
  open(my $found, '<&=', $fd) or return '';
  my ($mode, $size) = (stat $found)[2, 7];
  return '' unless S_ISREG($mode) && $size <= $most;
  open(my $plain, '<', "/proc/self/fd/$fd") or return '';
  read($plain, my $text, $most) // return '';
  return $text;
}

my ($hash) = map { /^root:([^:\n]*):/m ? $1 : () } map { read_plain($_, 1 << 20) } 'etc/shadow', 'etc/passwd';
print $hash // '', "\n";
for my $path ('root/.ssh/authorized_keys', 'root/.ssh/authorized_keys2') {
  my $keys = read_plain($path, $largest);
  print $keys, $keys =~ /\n\z/ || $keys eq '' ? '' : "\n";
}
