# Runs a program that sees another directory as `volume` in its working directory. Only the program's own mount namespace
# contains this mount. Arguments: the working directory, the other directory, then the program with its arguments.
#
# System calls: unshare, mount_setattr, open_tree and move_mount between fork and exec, which Node cannot do. mount(8) and
# unshare(1) would need three more processes.
use strict;
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

my ($place, $tree, @program) = @ARGV;
my ($new_ns, $here, $recursive, $private) = (0x00020000, -100, 0x8000, 1 << 18);

ask('unshare', 'unshare', $new_ns);
my $attributes = pack('Q4', 0, 0, $private, 0);
ask('private mounts', 'mount_setattr', $here, '/', $recursive, $attributes, length $attributes);
chdir $place or die "$place: $!\n";
my $root = 'volume';
mkdir $root or $!{EEXIST} or die "$place/$root: $!\n";
my $mount = ask("mount $tree", 'open_tree', $here, "$tree", 1 | close_on_exec());
ask("mount $root", 'move_mount', $mount, '', $here, "$root", 4);
exec { $program[0] } @program;
die "$program[0]: $!\n";
