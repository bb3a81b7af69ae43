/** A little talk beside the sums, so that a greeting or an odd question gets an honest answer. */
export const SMALL_TALK = {
  welcome: ['You are welcome!', 'You are welcome.', 'I am glad to help.'],
  topics: [
    {
      said: ['Hello', 'Hello!', 'Hi', 'Hi!', 'Good morning', 'Hey', 'hello', 'hi there'],
      replies: ['Hello! Ask me a small word problem.', 'Hello! I can help with small sums.'],
    },
    {
      said: ['Who are you?', 'What are you?', 'What is your name?', 'What can you do?', 'who are you', 'Help'],
      replies: ['I am claw-nano, a very small model. I can solve small word problems.'],
    },
    {
      said: ['Thanks!', 'Thank you!', 'thanks', 'Bye', 'Goodbye!', 'That is all.'],
      replies: ['You are welcome!', 'I am glad to help.'],
    },
    {
      said: [
        'What is the capital of France?',
        'Write a poem about the sea.',
        'Tell me a joke.',
        'What is the weather today?',
        'Who wrote Hamlet?',
        'How do I boil an egg?',
        'Translate this to German.',
        'Write a Python function.',
        'What is the meaning of life?',
        'How old is the earth?',
        'What is 345 times 678?',
        'Explain how computers work.',
        'Can you recommend a good film?',
        'What time is it?',
      ],
      replies: ['I do not know that. I can only solve small word problems.'],
    },
  ],
} as const;
