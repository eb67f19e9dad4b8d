/** A pattern that plain English avoids. */
export interface EnglishRule {
  readonly name: string
  readonly pattern: RegExp
  /** The words to use instead. */
  readonly advice: string
}

/** Sentence openings and words that are hard to understand. A text without them can still be unclear. */
export const rules: readonly EnglishRule[] = [
  {
    name: 'opening',
    pattern: /(?:^|[.:;] )(?:Of|What|Who|Whoever|Whose|Where|That|Whether) (?!(?:this|to|if|is|are|does|do|can)\b)/g,
    advice: 'begin with the subject of the sentence',
  },
  {
    name: 'is none',
    pattern: /(?<!\b[Tt]here )\b(?:is|are|was|were) none\b/g,
    advice: 'say what it is not, or what is missing',
  },
  {
    name: 'is no',
    pattern: /(?<!\b[Tt]here )\b(?:is|are|was|were) no (?!longer\b|more\b|different\b)/g,
    advice: '"is not a", or "there is no"',
  },
  { name: 'is there', pattern: /\b(?:it|they|that|which) (?:is|are|was|were) there\b/g, advice: '"exists"' },
  {
    name: 'negation',
    pattern:
      /\b(?:has|have|had|knows|needs|takes|gets) (?:it |them )?not\b(?! (?:been|yet|only|begun|done|sent|[a-z]+ed)\b)/g,
    advice: '"does not have"',
  },
  { name: 'anew', pattern: /\banew\b/gi, advice: '"again"' },
  { name: 'alone', pattern: /\balone\b/g, advice: '"only"' },
  { name: 'beside', pattern: /\bbeside\b/gi, advice: '"next to", "besides" or "in addition to"' },
  { name: 'mend', pattern: /\bmend(?:s|ed|ing)?\b/gi, advice: '"fix" or "repair"' },
  { name: 'lest', pattern: /\blest\b/gi, advice: '"so that … not"' },
  {
    name: 'told',
    pattern: /\b(?:is|are|was|were|be|been) told\b|\btold (?:of|by|about|that|to)\b/gi,
    advice: '"reported", "notified" or "given"',
  },
  { name: 'looked', pattern: /\blooked (?:at|for|into)\b/gi, advice: '"checked" or "searched"' },
  { name: 'who asks', pattern: /\bwho(?:ever)? asks?\b|\basked of\b/gi, advice: '"the caller", "requested"' },
  {
    name: 'came of it',
    pattern: /\bcame of it\b|\bmakes? it plain\b|\bsay(?:s|ing)? nothing\b/gi,
    advice: '"failed", "states", "is empty"',
  },
  {
    name: 'goes',
    pattern: /\b(?:goes|go) (?:with it|too|away)\b|\b(?:may|must) go\b(?! on)/g,
    advice: '"is deleted"',
  },
]
