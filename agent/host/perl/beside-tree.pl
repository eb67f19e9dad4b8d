# Runs a program in a directory in which `volume` is another one, in mounts of its own: so that the program knows it by
# the same relative path, wherever it lies. Arguments: the working directory, the other one, then the program.
use strict;
use POSIX ();

my ($place, $tree, @program) = @ARGV;
my ($nr_open_tree, $nr_move_mount, $nr_mount_setattr, $nr_unshare) = (428, 429, 442, 272);
$nr_unshare = 97 if (POSIX::uname())[4] eq 'aarch64';
my ($new_ns, $here, $recursive, $private) = (0x00020000, -100, 0x8000, 1 << 18);

sub ask {
  my ($what, $number, @arguments) = @_;
  my $answer = syscall($number, @arguments);
  die "$what: $!\n" if $answer < 0;
  return $answer;
}

ask('unshare', $nr_unshare, $new_ns);
my $attributes = pack('Q4', 0, 0, $private, 0);
ask('private mounts', $nr_mount_setattr, $here, '/', $recursive, $attributes, length $attributes);
chdir $place or die "$place: $!\n";
my $root = 'volume';
mkdir $root or $!{EEXIST} or die "$place/$root: $!\n";
my $mount = ask("mount $tree", $nr_open_tree, $here, "$tree", 1 | 02000000);
ask("mount $root", $nr_move_mount, $mount, '', $here, "$root", 4);
exec { $program[0] } @program;
die "$program[0]: $!\n";
