import { expect } from 'chai'
import {
  customImageId,
  findArchitecture,
  imageNamePattern,
  imageUrlPattern,
  imageWordPattern,
  isCustomImageId,
} from './image-rules.js'
import { templateIdPattern } from './guest-rules.js'

const operation = '0123abcd-4567-4abc-8def-0123456789ab'
const matches = (pattern: string, text: string): boolean => new RegExp(pattern, 'u').test(text)

describe('the rules for fields of custom images', () => {
  for (const [name, id] of [
    ['My Alpine', 'custom-my-alpine-0123abcd4567'],
    ['  Größe №7! ', 'custom-gr-e-7-0123abcd4567'],
    ['中文', 'custom-0123abcd4567'],
    ['../../etc', 'custom-etc-0123abcd4567'],
    ['x'.repeat(100), `custom-${'x'.repeat(40)}-0123abcd4567`],
  ] as const)
    it(`derive the id ${id} from the name "${name}"`, () => {
      expect(customImageId(name, operation)).to.equal(id)
      expect(isCustomImageId(id)).to.equal(true)
      expect(matches(templateIdPattern, id)).to.equal(true)
    })

  it('do not accept a catalogue id or a path as the id of a custom image', () => {
    for (const id of ['debian-12', 'custom-', 'custom-A', 'custom-a/b', 'custom-..', 'custom--x', 'xcustom-a'])
      expect(isCustomImageId(id), id).to.equal(false)
  })

  it('convert common names of architectures to Debian’s names', () => {
    for (const [word, known] of [
      ['x86_64', 'amd64'],
      ['AMD64', 'amd64'],
      ['aarch64', 'arm64'],
      ['toString', undefined],
      ['', undefined],
    ] as const)
      expect(findArchitecture(word), word).to.equal(known)
  })

  it('accept only one line as a name, one word as a release, and a URL without blanks', () => {
    expect(matches(imageNamePattern, 'Alpine – 3.22')).to.equal(true)
    for (const text of ['', 'a\nb', 'a\u2028b', 'x'.repeat(101)])
      expect(matches(imageNamePattern, text), text).to.equal(false)
    for (const text of ['', '-x', 'a b', 'a;b', '$(x)', 'a\n'])
      expect(matches(imageWordPattern, text), text).to.equal(false)
    expect(matches(imageUrlPattern, 'HTTPS://example.org/a?b=c')).to.equal(true)
    expect(matches(imageUrlPattern, 'upload:disk-1.qcow2')).to.equal(true)
    for (const text of [
      'upload:../x',
      'upload:',
      'upload:a/b',
      'https://',
      'ftp://a/',
      'https://a b',
      'https://ä/',
      'javascript:1',
      ' https://a',
    ])
      expect(matches(imageUrlPattern, text), text).to.equal(false)
  })
})
