import { expect } from 'chai'
import { CommandError } from '../../host/process/process.js'
import { unpackError } from './unpack.js'

describe('errors of programs that unpack archives', () => {
  const cases: readonly [name: string, code: number, stderr: string, expected: string, text: string][] = [
    ['a killed tar', 137, '', 'image_invalid', 'too much time or memory'],
    ['a killed decompressor', 2, 'tar: Child died with signal 9\n', 'image_invalid', 'too much time or memory'],
    ['a full disk', 2, 'tar: x: Cannot write: Disk quota exceeded\n', 'image_too_large', 'needs more space'],
    ['a damaged archive', 2, 'tar: Unexpected EOF in archive\n', 'image_invalid', 'it is damaged'],
  ]
  for (const [name, code, stderr, expected, text] of cases)
    it(`describes ${name}`, () => {
      const error = unpackError(new CommandError('unpack-tree', code, stderr, `exit code ${code}`))
      expect(error.code).to.equal(expected)
      expect(error.message).to.contain(text)
    })
})
