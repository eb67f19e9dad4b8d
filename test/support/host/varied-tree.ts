import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Writes all kinds of files that a guest's disk may contain. @param sizeMib size of the incompressible data */
export function writeVariedTree(root: string, sizeMib: number): void {
  const at = join(root, 'var/varied')
  mkdirSync(join(at, 'deep/er'), { recursive: true })
  const run = (script: string): unknown =>
    execFileSync('/bin/sh', ['-euc', script], { cwd: at, stdio: ['ignore', 'ignore', 'pipe'] })
  run(`head -c ${sizeMib}M /dev/urandom >noise; head -c 4M /dev/zero >zeroes; : >empty`)
  run('truncate -s 64M sparse; printf end >>sparse')
  run('ln noise hard; ln -s /no/where dangling; ln -s noise soft; mkfifo pipe')
  run('mknod whiteout c 0 0; mknod device b 7 200; chmod 0 whiteout')
  run('cp /bin/true setuid; chown 1234:4321 setuid; chmod 6755 setuid; chown -h 65534:65534 dangling')
  run('setfattr -n user.note -v kept setuid; setfattr -n trusted.overlay.opaque -v y deep')
  run('setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 zeroes')
  run('chmod 1777 deep; chmod 0 deep/er; touch -h -d "1999-12-31 23:59:59.123456789" soft; touch -d @1 empty')
  for (const name of ['line\nfeed', 'quo"te\'s', '-rf', '*', ' blank ', 'ünïcödé', '\\back'])
    writeFileSync(join(at, name), name)
  writeFileSync(Buffer.concat([Buffer.from(`${at}/`), Buffer.from([0xff, 0xfe, 0x80])]), 'no text')
  for (let i = 0; i < 500; i++) writeFileSync(join(at, `deep/${i}`), `${i}`.repeat(i))
}
