import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { expect } from 'chai'
import { unpackTestImage } from '../support/guests/debian-image.js'
import { machineApi } from '../support/host/machine-api.js'
import { readmeResult, tutorialResults, tutorialShell } from '../support/host/tutorial.js'
import { memoryDirectory, scratchDirectory } from '../support/scratch.js'
import { keepSystemdRoot } from '../support/host/systemd-root.js'
import { waitFor } from '../support/wait.js'
import { sh } from '../support/sh.js'

/*
 * Sets up Berth as in the README and the tutorial on a fresh Debian 12 with systemd: a privileged container without any
 * of the packages that Berth needs, with the checkout in /root. The packages for virtual machines are omitted, because their
 * installation takes long, and scripts/test itself installs them.
 */

const { path, wipe } = scratchDirectory('btest-fresh')
let scratch = ''
let root = ''
const veth = 'btest-fr0'
const forwarding = '/proc/sys/net/ipv4/ip_forward'
const forwardedBefore = readFileSync(forwarding, 'utf8')

function config(): string {
  const npm = resolve(dirname(process.execPath), '../lib/node_modules/npm')
  return [
    'lxc.uts.name = fresh',
    `lxc.rootfs.path = dir:${root}`,
    'lxc.net.0.type = veth',
    'lxc.net.0.flags = up',
    `lxc.net.0.veth.pair = ${veth}`,
    'lxc.net.0.ipv4.address = 10.215.7.2/24',
    'lxc.net.0.ipv4.gateway = 10.215.7.1',
    'lxc.mount.auto = proc:rw sys:rw cgroup:rw:force',
    'lxc.pty.max = 1024',
    'lxc.apparmor.profile = unconfined',
    'lxc.cgroup.devices.allow = a',
    'lxc.cgroup2.devices.allow = a',
    // The kernel permits proc and sysfs in a user namespace only if an uncovered mount of each already exists there.
    'lxc.mount.entry = proc dev/.lxc/proc proc create=dir 0 0',
    'lxc.mount.entry = sys dev/.lxc/sys sysfs create=dir 0 0',
    'lxc.mount.entry = /dev/fuse dev/fuse none bind,create=file 0 0',
    'lxc.mount.entry = /dev/loop-control dev/loop-control none bind,create=file 0 0',
    `lxc.mount.entry = ${process.execPath} usr/local/bin/node none bind,ro,create=file 0 0`,
    `lxc.mount.entry = ${npm} usr/local/lib/node_modules/npm none bind,ro,create=dir 0 0`,
    `lxc.mount.entry = ${resolve('node_modules')} root/berth/node_modules none bind,ro,create=dir 0 0`,
  ].join('\n')
}

/** Packages in the test's image that a plain Debian may not have. */
const notFresh = ['ca-certificates', 'curl', 'openssl', 'tzdata', 'less', 'nano', 'vim-tiny', 'vim-common']

async function makeMachine(): Promise<void> {
  // Marks the npm packages as up to date here, because they are read-only inside the container.
  sh('bash', '-c', '. scripts/lib/common.sh; ensure_npm_packages /dev/null')
  scratch = memoryDirectory(path)
  root = join(scratch, 'root')
  mkdirSync(root)
  await unpackTestImage(root)
  sh('chroot', root, 'dpkg', '--purge', ...notFresh)
  mkdirSync(join(root, 'root/berth'), { recursive: true, mode: 0o700 })
  sh('bash', '-c', `git ls-files -co --exclude-standard -z | tar -c --null -T - | tar -x -C ${root}/root/berth`)
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/local/bin/npm'))
  copyFileSync('/etc/resolv.conf', join(root, 'etc/resolv.conf'))
  writeFileSync(join(root, 'etc/hostname'), 'fresh\n')
  writeFileSync(join(root, 'root/tutorial.sh'), tutorialShell())
  mkdirSync(join(scratch, 'lxc/fresh'), { recursive: true })
  writeFileSync(join(scratch, 'lxc/fresh/config'), config())
}

function startMachine(): void {
  sh('lxc-start', '-P', join(scratch, 'lxc'), '-n', 'fresh', '-d')
  sh('ip', 'address', 'add', '10.215.7.1/24', 'dev', veth)
  sh('ip', 'link', 'set', veth, 'up')
  writeFileSync(forwarding, '1')
  const nat = 'type nat hook postrouting priority 100;'
  const masquerade = 'ip saddr 10.215.7.0/24 oifname != "btest-fr0" masquerade'
  sh(
    'nft',
    `add table ip btest_fresh; add chain ip btest_fresh post { ${nat} }; add rule ip btest_fresh post ${masquerade}`,
  )
}

/** Keeps the root file system for other tests, without the files of this test. */
function keepMachine(): void {
  sh('lxc-stop', '-k', '-P', join(scratch, 'lxc'), '-n', 'fresh')
  const ours = ['root/berth', 'root/tutorial.sh', 'usr/local/bin', 'usr/local/lib/node_modules']
  sh('rm', '-rf', '--one-file-system', ...ours.map((path) => join(root, path)))
  sh('chroot', root, 'apt-get', 'clean')
  keepSystemdRoot(root)
}

function removeMachine(): void {
  wipe()
  spawnSync('ip', ['link', 'delete', veth])
  spawnSync('nft', ['delete', 'table', 'ip', 'btest_fresh'])
  writeFileSync(forwarding, forwardedBefore)
}

function inside(command: string): { code: number | null; output: string } {
  const path = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
  const args = ['-P', join(scratch, 'lxc'), '-n', 'fresh', '--clear-env', '-v', 'HOME=/root', '-v', path]
  const { status, stdout, stderr } = spawnSync('lxc-attach', [...args, '--', 'bash', '-c', command], {
    encoding: 'utf8',
  })
  return { code: status, output: stdout + stderr }
}

function quoted(command: readonly string[]): string {
  return command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ')
}

function succeed(command: string): string {
  const { code, output } = inside(command)
  expect(code, output).to.equal(0)
  return output
}

describe('a fresh Debian 12 with systemd', function () {
  // On a busy host the packages and the image take ten minutes.
  this.timeout(1_500_000)

  before(async () => {
    removeMachine()
    await makeMachine()
    startMachine()
    await waitFor(() => /running|degraded/.test(inside('systemctl is-system-running').output), {
      what: 'systemd inside',
    })
    succeed('for i in $(seq 0 31); do [ -e /dev/loop$i ] || mknod /dev/loop$i b 7 $i; done')
  })
  after(removeMachine)

  it('is set up by scripts/up, which installs packages, starts both units and builds the first image', () => {
    const output = succeed('/root/berth/scripts/up --no-kvm')
    expect(output).to.match(/Installing \d+ Debian packages: .*lxc.*redis-server/)
    expect(output).to.include('Berth is up').and.include('journalctl -u berth-agent')
    expect(succeed('systemctl is-active berth-agent berth-gateway')).to.equal('active\nactive\n')
    expect(succeed('systemctl is-enabled berth-agent berth-gateway')).to.equal('enabled\nenabled\n')
    expect(succeed('systemctl --failed --no-legend')).to.equal('')
    const tasks = machineApi((...command) => succeed(quoted(command))).ask<{ action: string; status: string }[]>(
      '/tasks',
    )
    expect(tasks.map(({ action, status }) => `${action} ${status}`)).to.deep.equal(['image_build done'])
  })

  it('runs neither the Redis server of the distribution nor the bridge of LXC', () => {
    expect(inside('systemctl is-enabled redis-server lxc-net').output).to.equal('disabled\ndisabled\n')
    expect(inside('ip link show lxcbr0').code).not.to.equal(0)
  })

  it('runs all commands of the tutorial and of the README successfully', () => {
    succeed('apt-get install -qy sshpass')
    const output = succeed('bash /root/tutorial.sh')
    for (const result of tutorialResults) expect(output).to.match(result)
    const answers = output.slice(output.indexOf('README:'))
    expect(readmeResult.test(answers), answers).to.equal(true)
  })

  it('keeps nothing of Berth after scripts/down --purge', () => {
    succeed('/root/berth/scripts/down --purge')
    const traces = [
      'ls -d /etc/berth* /var/lib/*berth* /opt/berth* /run/*berth* /var/log/berth* /run/lock/berth*',
      'ls -d /etc/systemd/system/*berth* /etc/systemd/system/*/*berth*',
      'ip -br link | grep -E "^(berth|bt[0-9])"',
      'nft list tables | grep .',
      'grep -E "btrfs|berth" /proc/self/mounts | grep -v node_modules',
      'pgrep -fa "[b]erth/(agent|gateway|pool)|lxc monito[r]"',
      'find /sys/fs/cgroup -name "lxc.*.bt*" | grep .',
      'getent passwd berth',
    ]
    for (const trace of traces) expect(inside(`${trace} 2>/dev/null`).output, trace).to.equal('')
    keepMachine()
  })
})
