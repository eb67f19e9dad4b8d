import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const applets = [
  'sh',
  'cat',
  'mv',
  'rm',
  'mkdir',
  'chmod',
  'chown',
  'hostname',
  'sleep',
  'init',
  'poweroff',
  'ls',
  'mktemp',
  'ip',
  'ping',
  'nc',
  'wget',
  'ps',
  'head',
  'tr',
  'printf',
  'sync',
]

/**
 * Installs a root filesystem of a few MB that boots quickly, in place of the image of a template. It is meant for tests
 * of the agent, not of Debian. A running agent uses it only after a restart.
 */
export async function installBusyboxImage(pool: string, templateId: string): Promise<void> {
  const path = join(pool, 'images', templateId)
  if (existsSync(path)) return
  execFileSync('btrfs', ['-q', 'subvolume', 'create', path])
  fillBusyboxTree(path, templateId)
  execFileSync('btrfs', ['property', 'set', path, 'ro', 'true'])
}

/** Writes a small BusyBox system to an empty directory. @param name is written to etc/template */
export function fillBusyboxTree(path: string, name: string): void {
  for (const directory of ['bin', 'dev', 'etc', 'proc', 'root', 'run', 'sbin', 'sys', 'tmp', 'usr', 'var'])
    mkdirSync(join(path, directory))
  copyFileSync('/bin/busybox', join(path, 'bin/busybox'))
  for (const applet of applets) symlinkSync('busybox', join(path, 'bin', applet))
  symlinkSync('../bin/busybox', join(path, 'sbin/init'))
  writeFileSync(join(path, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n')
  writeFileSync(join(path, 'etc/group'), 'root:x:0:\n')
  writeFileSync(join(path, 'etc/shadow'), 'root:*:19000:0:99999:7:::\n', { mode: 0o640 })
  writeFileSync(join(path, 'etc/inittab'), '::sysinit:/bin/true\n::respawn:/bin/sleep 100000\n::shutdown:/bin/sync\n')
  writeFileSync(join(path, 'etc/template'), name)
  chmodSync(join(path, 'root'), 0o700)
}
