/** Texts about the tags, the note, the protection and the deletion of a guest. */
export const labels = {
  'labels.title': 'Tags and protection',
  'labels.tags': 'Tags',
  'labels.tagsHint': 'Separated by spaces. Lower-case letters, digits and - _ . : are allowed. Customers see the tags.',
  'labels.note': 'Note',
  'labels.noteHint': 'Only administrators see the note.',
  'labels.protected': 'Protect against deletion',
  'labels.protectedHint': 'The guest can neither be deleted nor reinstalled.',
  'labels.isProtected': 'Protected against deletion',
  'labels.tagged': 'Show guests with the tag {{tag}}',
  'labels.anyTag': 'All tags',
  'delete.protected': '{{name}} is protected',
  'delete.protectedText': 'This guest can’t be deleted. First turn off “Protect against deletion” in its settings.',
  'delete.askProvider': 'This guest can’t be deleted. Ask your provider to lift the protection.',
  'delete.openSettings': 'Open the settings',
} as const
