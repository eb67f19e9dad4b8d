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

describe('the used bytes on a guest’s file systems', () => {
  for (const [what, answer, bytes] of [
    ['one file system', [entry('vda1', 700)], 700],
    ['several file systems', [entry('vda1', 700), entry('vda2', 30, 'vfat')], 730],
    ['a file system that is mounted twice', [entry('vda1', 700), entry('vda1', 700)], 700],
    ['a file system and the seed CD', [entry('vda1', 700), entry('sr0', 5000, 'iso9660')], 700],
    ['two file systems if one of them reports no usage', [{ name: 'vda1', type: 'ext4' }, entry('vda2', 30)], 30],
    ['a usage that exceeds the size of the disk (1000)', [entry('vda1', 2 ** 50)], 1000],
    ['an empty list', [], undefined],
    ['an object instead of a list', { vda1: 700 }, undefined],
    ['an answer of the guest agent that is null', null, undefined],
    ['a negative usage', [entry('vda1', -700)], undefined],
    ['text and NaN instead of numbers', [entry('vda1', '700'), entry('vda2', Number.NaN)], undefined],
    ['a list that is too long', Array.from({ length: 1000 }, (_, at) => entry(`vda${at}`, 1)), undefined],
  ] as const)
    it(`are ${bytes} for ${what}`, () => expect(parseFileSystems(answer, 1000)).to.equal(bytes))
})
