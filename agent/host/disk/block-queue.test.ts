import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { expect } from 'chai'
import { scratchDirectory } from '../../../test/support/scratch.js'
import { listDisks, parseScheduler, setScheduler } from './block-queue.js'

describe('the parser of the active I/O scheduler of a disk', () => {
  for (const [text, scheduler] of [
    ['none [mq-deadline] kyber bfq\n', 'mq-deadline'],
    ['[none]', 'none'],
    ['none', 'none'],
    ['', undefined],
  ] as const)
    it(`returns ${scheduler} for ${JSON.stringify(text)}`, () => expect(parseScheduler(text)).to.equal(scheduler))
})

describe('the disks below a block device', () => {
  const scratch = scratchDirectory('btest-block-queue')
  const devices = `${scratch.path}/dev`
  const make = (name: string, numbers: string, below: readonly string[] = []): string => {
    const path = `${scratch.path}/${name}`
    mkdirSync(`${path}/slaves`, { recursive: true })
    mkdirSync(`${path}/queue`)
    writeFileSync(`${path}/dev`, `${numbers}\n`)
    writeFileSync(`${path}/queue/scheduler`, '[none] mq-deadline\n')
    for (const one of below) symlinkSync(`${scratch.path}/${one}`, `${path}/slaves/${one.split('/').at(-1)!}`)
    mkdirSync(devices, { recursive: true })
    symlinkSync(path, `${devices}/${numbers}`)
    return path
  }

  before(() => {
    scratch.wipe()
    make('sda', '8:0')
    writeFileSync(`${make('sda/sda2', '8:2')}/partition`, '2')
    make('sdb', '8:16')
    make('md0', '9:0', ['sda/sda2', 'sdb'])
    make('dm-0', '253:0', ['md0'])
    mkdirSync(`${make('loop1', '7:1')}/loop`)
    writeFileSync(`${scratch.path}/loop1/loop/backing_file`, '/var/lib/x.img\n')
  })
  after(() => scratch.wipe())

  for (const [what, numbers, disks] of [
    ['are the device itself if it is a disk', '8:16', ['8:16']],
    ['are the disk that contains the device if it is a partition', '8:2', ['8:0']],
    ['are all disks of the RAID if the device is LUKS on a RAID', '253:0', ['8:0', '8:16']],
    ['are an empty list if the device does not exist', '1:1', []],
  ] as const)
    it(what, () => expect(listDisks(numbers, devices).map((disk) => disk.numbers)).to.have.members([...disks]))

  it('include the path of the file if the device is a loop device', () => {
    expect(listDisks('7:1', devices)[0]?.backingFile).to.equal('/var/lib/x.img')
  })

  it('keep their scheduler, and cause no error, if another scheduler cannot be set', () => {
    expect(setScheduler({ path: `${scratch.path}/nowhere` }, 'bfq')).to.equal(false)
    expect(setScheduler({ path: '/proc/self' }, 'bfq')).to.equal(false)
    expect(readFileSync(`${scratch.path}/sdb/queue/scheduler`, 'utf8')).to.contain('[none]')
  })
})
