import { expect } from 'chai'
import { parseFileSystems } from './parse-file-systems.js'

const entry = (name: string, bytes: unknown, type = 'ext4') => ({
  name,
  mountpoint: '/',
  type,
  'used-bytes': bytes,
  'total-bytes': 9000,
  disk: [],
})

describe("the usage of a guest's file systems", () => {
  for (const [what, answer, bytes] of [
    ['one', [entry('vda1', 700)], 700],
    ['several', [entry('vda1', 700), entry('vda2', 30, 'vfat')], 730],
    ['one that is mounted twice, counted once', [entry('vda1', 700), entry('vda1', 700)], 700],
    ['without the seed CD', [entry('vda1', 700), entry('sr0', 5000, 'iso9660')], 700],
    ['without a file system that reports no usage', [{ name: 'vda1', type: 'ext4' }, entry('vda2', 30)], 30],
    ['at most the size of the disk', [entry('vda1', 2 ** 50)], 1000],
    ['none', [], undefined],
    ['no list', { vda1: 700 }, undefined],
    ['nothing', null, undefined],
    ['a negative usage', [entry('vda1', -700)], undefined],
    ['no numbers', [entry('vda1', '700'), entry('vda2', Number.NaN)], undefined],
    ['too many entries', Array.from({ length: 1000 }, (_, at) => entry(`vda${at}`, 1)), undefined],
  ] as const)
    it(what, () => expect(parseFileSystems(answer, 1000)).to.equal(bytes))
})
