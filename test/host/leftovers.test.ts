import { expect } from 'chai'
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { removeLeftovers } from '../../scripts/runner/leftovers.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'

const prefix = 'btestswp'
const clocks = 'faketime_btestswp'
const folder = `/var/tmp/${prefix}-a`
const log = `/var/log/berth-${prefix}`

const shell = (text: string): string => sh('sh', '-c', text)

describe('the clean-up after earlier test runs', () => {
  const children: ChildProcess[] = []
  const start = (command: string, ...args: string[]): ChildProcess => {
    const child = spawn(command, args, { stdio: 'ignore' })
    children.push(child)
    return child
  }

  after(() => {
    for (const child of children) child.kill('SIGKILL')
    removeLeftovers({ prefix, clocks })
    rmSync(`/dev/shm/${clocks}_used`, { force: true })
  })

  it('removes processes, networks, mounts, loop devices, directories and logs with the prefix of tests', async () => {
    for (const path of [`${folder}/mount point`, log]) mkdirSync(path, { recursive: true })
    shell(`truncate -s 20M ${folder}/disk && mkfs.ext4 -q ${folder}/disk`)
    shell(`mount -o loop ${folder}/disk '${folder}/mount point'`)
    shell(`ip link add ${prefix}0 type bridge && ip link add xswp0 type veth peer name xswp1`)
    shell(`ip link set xswp0 master ${prefix}0 && ip netns add ${prefix} && nft add table inet ${prefix}`)
    writeFileSync(`/tmp/${prefix}-b`, '')
    const child = start('bash', '-c', `exec -a ${folder}/program sleep 600`)
    await waitFor(() => readFileSync(`/proc/${child.pid}/comm`, 'utf8') === 'sleep\n')
    removeLeftovers({ prefix, clocks })
    await waitFor(() => child.signalCode === 'SIGKILL')
    expect([folder, log, `/tmp/${prefix}-b`].filter(existsSync)).to.deep.equal([])
    const state = shell(`ip -o link; ip netns list; nft list tables; losetup -l; cat /proc/self/mounts`)
    expect(state).not.to.match(/btestswp|xswp/)
  })

  it('ends a process that works in a directory of a test, even if its command line does not show this', async () => {
    mkdirSync(folder, { recursive: true })
    const child = spawn('sleep', ['600'], { stdio: 'ignore', cwd: folder })
    children.push(child)
    rmSync(folder, { recursive: true }) // the link to the working directory then ends with "(deleted)"
    removeLeftovers({ prefix, clocks })
    await waitFor(() => child.signalCode === 'SIGKILL')
  })

  it('removes the clock files of libfaketime in /dev/shm if no process uses them', async () => {
    const [used, unused] = [`/dev/shm/${clocks}_used`, `/dev/shm/${clocks}_unused`]
    for (const path of [used, unused]) writeFileSync(path, 'clock')
    const map = `import mmap, time; f = open("${used}", "r+b"); m = mmap.mmap(f.fileno(), 0); time.sleep(600)`
    const { pid } = start('python3', '-c', map)
    await waitFor(() => readFileSync(`/proc/${pid}/maps`, 'utf8').includes(used))
    removeLeftovers({ prefix, clocks })
    expect([used, unused].filter(existsSync)).to.deep.equal([used])
  })
})
