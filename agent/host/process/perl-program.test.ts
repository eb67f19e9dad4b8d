import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { expect } from 'chai'
import { hashPassword } from '../guest/password-hash.js'
import { perlProgram } from './perl-program.js'

const names = readdirSync(dirname(perlProgram('common')))
  .filter((file) => file.endsWith('.pl'))
  .map((file) => file.slice(0, -'.pl'.length))
const shared = ['common', 'isolate']
const textOf = (name: string): string => readFileSync(perlProgram(name), 'utf8')
const functionsOf = (name: string): string[] =>
  [...textOf(name).matchAll(/^\s*sub (\w+)/gm)].map(([, defined = '']) => defined)

describe('each Perl program of the agent', () => {
  it('describes its arguments and system calls in a comment', () => {
    for (const name of names.filter((name) => name !== 'common')) {
      const [head = ''] = textOf(name).split(/^[^#]/m)
      expect(head, name).to.match(/^# System calls: /m)
      if (name !== 'isolate') expect(head, name).to.match(/[aA]rguments?\b/)
    }
  })

  it('redefines no function of common.pl or isolate.pl', () => {
    const taken = shared.flatMap(functionsOf)
    expect(new Set(taken).size).to.equal(taken.length)
    for (const name of names.filter((name) => !shared.includes(name) && name !== 'launcher'))
      expect(
        functionsOf(name).filter((defined) => taken.includes(defined)),
        name,
      ).to.deep.equal([])
  })

  it('contains no system call numbers, except in common.pl', () => {
    for (const name of names.filter((name) => name !== 'common'))
      expect(textOf(name), name).not.to.match(/\bsyscall\b(?!\w)\s*\(|aarch64/)
  })

  it('finds common.pl from any working directory', () => {
    const options = { cwd: '/', encoding: 'utf8', stdio: 'pipe' } as const
    expect(execFileSync('perl', [perlProgram('list-existing'), '/etc', 'passwd', 'no'], options)).to.equal('passwd\n')
  })
})

describe('the password hash of crypt(3)', () => {
  it('covers every byte of the password, and has a new salt each time', async () => {
    for (const password of ['ä b', '-n', 'two\nlines\n', '$6$', '']) {
      const [first, second] = await Promise.all([hashPassword(password), hashPassword(password)])
      expect(first).not.to.equal(second)
      const check = 'print crypt($ARGV[0], $ARGV[1]) eq $ARGV[1] ? 1 : 0'
      expect(execFileSync('perl', ['-e', check, '--', password, first], { encoding: 'utf8' })).to.equal('1')
      expect(first).to.match(/^\$6\$[^$]{16}\$[^$]{86}$/)
    }
  })
})
